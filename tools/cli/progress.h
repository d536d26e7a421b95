// SPDX-License-Identifier: Apache-2.0
// Says on a terminal what takes long; says nothing in a pipe.
#pragma once

#include <string>

namespace arenite::tool {

class Progress {
 public:
  explicit Progress(const std::string& what);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void done();

 private:
  bool shown_;
};

}  // namespace arenite::tool
