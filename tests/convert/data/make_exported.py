# SPDX-License-Identifier: Apache-2.0
"""Makes tests/convert/data/exported_*.pt2 with PyTorch 2.14: small modules that use many ops,
with
their inputs and the outputs that PyTorch computes in double precision."""
import sys, math, torch
import torch.nn.functional as F
import numpy as np
torch.manual_seed(0)
out = sys.argv[1]
R = lambda *s: torch.randn(*s)

class Elementwise(torch.nn.Module):
    def forward(self, x):
        p = x.abs() + 0.5
        y = [F.gelu(x), F.gelu(x, approximate='tanh'), F.silu(x), F.relu(x), x.tanh(),
            x.sigmoid(),
             torch.erf(x), x.exp(), p.log(), p.sqrt(), p.rsqrt(), F.softplus(x),
             F.leaky_relu(x, 0.2),
             F.elu(x), F.hardswish(x), F.hardsigmoid(x), F.mish(x), F.selu(x), F.celu(x),
             F.relu6(x), F.logsigmoid(x),
             x.clamp(-0.5,
             0.7), x.clamp(min=0.1), p.pow(1.5), x ** 2, x.sin(), x.cos(), x.reciprocal(),
             torch.where(x > 0, x, -x * 2), torch.where(x > 0, x, 0.0), x.masked_fill(x < 0,
             -3.0),
             torch.maximum(x, x * x), torch.remainder(x, 0.3), torch.fmod(x,
             0.3), torch.floor_divide(x, 0.3),
             (x > 0).float(), ((x > 0) & (x < 1)).float(),
             torch.logical_not(x > 0).to(x.dtype), x.round(), x.floor(),
             torch.rsub(x, 1.0, alpha=2.0), torch.add(x, x, alpha=3), x.sign(), torch.lerp(x,
             p, 0.3),
             torch.addcmul(x, x, p, value=0.5), torch.addcdiv(x, x,
             p), x.nan_to_num(), torch.atan2(x, p), F.hardtanh(x), x.neg(), x.square(),
             F.threshold(x, 0.1, 2.0)]
        return torch.stack(y)

class Moves(torch.nn.Module):
    def forward(self, x):  # [4, 6, 8]
        y = [x.transpose(0, 1), x.permute(2, 0, 1), x.flip(1), x.roll((1, -2), (0, 2)),
            x.roll(3), x.tril(1), x.triu(-1),
             x[:, 1::2], x[1], x[..., -1], x.narrow(1, 2, 3), x.unfold(2, 3, 2), x.diagonal(0,
             1, 2), x.repeat(2, 1, 1),
             x.repeat_interleave(2, 1), x.unsqueeze(1).expand(4, 3, 6, 8), x.movedim(0,
             2), x.flatten(1), x.unflatten(2, (2, 4)),
             torch.cat(x.split([2, 4], 1)[::-1], 1), torch.cat(x.chunk(3, 1)[1:],
             0), torch.stack(x.unbind(0)[:2], 1), F.pad(x, (1, 2, 0, 1)),
             F.pixel_unshuffle(x[:, :6, :6], 2), F.pixel_shuffle(x, 2), x.index_select(1,
             torch.tensor([3, 0, 3])),
             x.gather(1, torch.arange(4 * 2 * 8).reshape(4, 2, 8) % 6), x[:, [1, 3, 2]], x[:,
             torch.tensor([[0], [2]]), torch.tensor([1, 5])],
             x.reshape(8,
             -1), x.T if x.dim() == 2 else x.mT, x.tile(2), torch.broadcast_tensors(x[:,
             :1], x)[0], x.swapaxes(0, 2), x.unsqueeze(0).squeeze(0),
             torch.meshgrid(x[0, 0], x[0, :, 0], indexing='ij')[1], torch.cat([x, x], -1)[...,
             ::3], x.view(4, 48).t()]
        return torch.cat([a.reshape(-1) for a in y])

class Reduce(torch.nn.Module):
    def forward(self, x):
        y = [x.sum(), x.sum(-1), x.mean((0, 2)), x.var(-1), x.var(-1, unbiased=False), x.std(1,
            keepdim=True), x.var(-1, correction=0), x.amax(1), x.amin(-1),
             x.max(1).values, x.max(), x.min(2)[0], x.argmax(-1).double(),
             x.argmin(1).double(), x.cumsum(1), x.prod(-1), x.logsumexp(-1), x.norm(dim=-1),
             torch.linalg.vector_norm(x, 2,
             -1), (x > 0).any(-1).double(), (x > 0).all(1).double(), (x > 0).sum().double(),
             torch.diff(x, dim=1),
             x.softmax(-1), x.log_softmax(1), F.softmax(x, 0), F.normalize(x,
             dim=-1), torch.var_mean(x, -1)[0], F.layer_norm(x, (6,
             8)), F.rms_norm(x, (8,), eps=1e-5), F.group_norm(x, 3),
             torch.std_mean(x, 1)[1]]
        return torch.cat([a.reshape(-1).to(x.dtype) for a in y])

class Products(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.w = torch.nn.Parameter(R(5, 8))
        s.b = torch.nn.Parameter(R(5))
        s.c1 = torch.nn.Conv1d(6, 4, 3, padding=1)
        s.c2 = torch.nn.Conv2d(4, 6, 2, stride=2, groups=2)
        s.p = torch.nn.Conv1d(6, 6, 3, padding='same', dilation=2)
    def forward(s, x):
        q = x.reshape(4, 2, 3, 8); m = torch.ones(3, 3).tril().bool()
        y = [F.linear(x, s.w, s.b), x @ s.w.t(), torch.bmm(x, x.mT), torch.addmm(s.b, x[0],
            s.w.t()), torch.baddbmm(x @ x.mT, x, x.mT, beta=0.5, alpha=2.0),
             torch.mv(x[0], x[0, 0]), torch.addmv(x[0, :, 0], x[1], x[0, 0],
             alpha=0.3), torch.dot(x[0, 0], x[1, 1]), torch.outer(x[0, 0], x[0,
             1]), x[0, 0] @ x[1].t(), x @ x[0, 0],
             torch.einsum('bik,bjk->bij', x, x), torch.einsum('bij,kj->bik', x,
             s.w), torch.einsum('...ij->...ji', x), torch.einsum('bii->b', x[:, :,
             :6]), torch.einsum('bij', x),
             F.scaled_dot_product_attention(q, q, q), F.scaled_dot_product_attention(q, q, q,
             is_causal=True, scale=0.3), F.scaled_dot_product_attention(q, q, q, attn_mask=m),
             F.scaled_dot_product_attention(q, q[:, :1], q[:, 1:], attn_mask=m.to(x.dtype),
             enable_gqa=True), s.c1(x), s.c2(x.reshape(1, 4, 6, 8)), s.p(x)]
        return torch.cat([a.reshape(-1) for a in y])

class Rotate(torch.nn.Module):
    def __init__(s):
        super().__init__(); s.register_buffer('f', torch.polar(torch.ones(6, 4), R(6, 4)))
        s.register_buffer('i', torch.tensor([3, -1, 7], dtype=torch.int32))
        s.register_buffer('h', R(3).half())
    def forward(s, x):
        z = torch.view_as_complex(x.reshape(4, 6, 4, 2))
        r = torch.view_as_real(z * s.f).flatten(2)
        a = torch.arange(6, dtype=x.dtype)
        o = torch.outer(a, torch.full((2,), 0.5, dtype=x.dtype))
        n = torch.arange(0, 5, 2); i = s.i // 2 + s.i % 4
        k = torch.zeros(3, dtype=torch.long); k[1] = 5
        with torch.no_grad(): g = torch.polar(torch.ones_like(o), o).real + torch.linspace(0,
            1, 2)
        return torch.cat([r.reshape(-1), o.reshape(-1), n.to(x.dtype), i.to(x.dtype),
            g.reshape(-1).to(x.dtype), z.abs().reshape(-1), s.h.to(x.dtype), k.to(x.dtype),
            torch.eye(3).reshape(-1).to(x.dtype), F.one_hot(torch.tensor([1, 0]),
            3).reshape(-1).to(x.dtype)])

class InPlace(torch.nn.Module):
    def forward(self, x):
        y = x * 1.0
        y[:, 0] = 7.0
        v = y.transpose(1, 2)
        v[0].mul_(2.0)
        u = y.view(4, 48)
        u[:, 3:5].add_(x[:, 0, :2])
        y.masked_fill_(y > 6.5, 0.25)
        a, b = y.split([2, 4], 1)
        b.relu_()
        w = v + 1
        v.copy_(v.exp())
        y[1, 2:4, 1] = torch.tensor([1.5, 2.5]).to(x.dtype)
        return torch.cat([y.reshape(-1), v.reshape(-1), u.reshape(-1), a.reshape(-1),
            b.reshape(-1), w.reshape(-1)])

class Dyn(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.e = torch.nn.Embedding(11, 8)
        s.l = torch.nn.Linear(8, 8); s.l.weight = torch.nn.Parameter(s.l.weight[:, :])
    def forward(s, i):
        n = i.shape[1]
        x = s.e(i) * math.sqrt(8) + torch.arange(n).to(s.l.weight.dtype).view(1, n, 1) / (2 * n)
        q = s.l(x).view(1, n, 2, 4).transpose(1, 2)
        m = torch.full((n, n), float('-inf')).triu(1).to(q.dtype)
        w = torch.softmax(q @ q.transpose(-2, -1) / 2.0 + m, -1)
        return (w @ q).transpose(1, 2).reshape(1, n, 8) @ s.e.weight.t()

def save(name, m, x, dyn=None):
    m = m.eval(); f = f'{out}/exported_{name}'
    torch.export.save(torch.export.export(m, (x,), dynamic_shapes=dyn), f + '.pt2')
    y = m.double()(x.double() if x.is_floating_point() else x)
    np.save(f + '_input.npy', x.numpy()); np.save(f + '_expected.npy', y.detach().numpy())
for n, c in dict(elementwise=Elementwise, moves=Moves, reduce=Reduce, products=Products,
    rotate=Rotate, in_place=InPlace).items():
    try: save(n, c(), R(4, 6, 8))
    except Exception as e: print(n, type(e).__name__, str(e)[:600])
save('dynamic', Dyn(), torch.randint(0, 11, (1, 7)), {'i': {1: torch.export.Dim('n', min=2,
    max=64)}})
class Active(torch.nn.Module):
    def __init__(s): super().__init__(); s.d = torch.nn.Dropout(0.1)
    def forward(s, x): return s.d(x)
torch.export.save(torch.export.export(Active().train(), (R(2, 3),)),
    f'{out}/exported_active_dropout.pt2')
class Count(torch.nn.Module):
    def forward(s, x): return x.masked_select(x > 0).sum()
try: torch.export.save(torch.export.export(Count(), (R(2, 3),)),
    f'{out}/exported_data_dependent.pt2')
except Exception as e: print('dd', str(e)[:200])
