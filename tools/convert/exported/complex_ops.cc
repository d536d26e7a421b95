// SPDX-License-Identifier: Apache-2.0
// Complex numbers, of which rotations are often made, and their parts.
#include <cmath>

#include "convert/exported/broadcasting.h"
#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

using Complex = std::complex<double>;

Results view_as_complex(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_real(self.type()) || self.rank() == 0 || self.shape().back() != 2) {
    call.refuse("it takes pairs of real numbers");
  }
  Array::Complexes values(self.elements() / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = {self.reals()[2 * i], self.reals()[2 * i + 1]};
  }
  Shape shape = self.shape();
  shape.pop_back();
  return {Array::complex(std::move(shape), std::move(values))};
}

Results view_as_real(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_complex(self.type())) call.refuse("it takes complex numbers");
  Array::Reals values;
  values.reserve(2 * self.elements());
  for (const Complex& value : self.complexes()) {
    values.push_back(value.real());
    values.push_back(value.imag());
  }
  Shape shape = self.shape();
  shape.push_back(2);
  return {Array::real(std::move(shape), std::move(values))};
}

template <typename Function>
Results combined(const CallArguments& call, const char* first, const char* second,
                 const Function& function) {
  const Array a = call.array(first).to(ElementType::kF64);
  const Array b = call.array(second).to(ElementType::kF64);
  const Shape shape = broadcast(a.shape(), b.shape());
  return {Array::complex(
      shape, zip<Complex>(a.shape(), a.reals(), b.shape(), b.reals(), shape, function))};
}

Results polar(const CallArguments& call, OpBudget&) {
  return combined(call, "abs", "angle", [](double length, double angle) {
    return Complex(length * std::cos(angle), length * std::sin(angle));
  });
}

Results complex(const CallArguments& call, OpBudget&) {
  return combined(call, "real", "imag", [](double re, double im) { return Complex(re, im); });
}

template <double (*kPart)(const Complex&)>
Results part(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  Array::Reals values;
  values.reserve(self.elements());
  for (const Complex& value : self.to_complexes()) values.push_back(kPart(value));
  return {Array::real(self.shape(), std::move(values))};
}

double real_part(const Complex& z) { return z.real(); }
double imaginary_part(const Complex& z) { return z.imag(); }
double angle_of(const Complex& z) { return std::arg(z); }

Results conjugate(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_complex(self.type())) return {self};
  Array::Complexes values = self.complexes();
  for (Complex& value : values) value = std::conj(value);
  return {Array::complex(self.shape(), std::move(values), self.type())};
}

}  // namespace

OpRules complex_rules() {
  return {{"view_as_complex", view_as_complex},
          {"view_as_real", view_as_real},
          {"polar", polar},
          {"complex", complex},
          {"real", part<real_part>},
          {"imag", part<imaginary_part>},
          {"angle", part<angle_of>},
          {"conj", conjugate},
          {"_conj", conjugate},
          {"conj_physical", conjugate}};
}

}  // namespace arenite::convert
