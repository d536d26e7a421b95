// SPDX-License-Identifier: Apache-2.0
// Stands in for the pthreadpool library, of which XNNPACK's headers only name this pointer type; no
// microkernel takes one, so the library itself is not needed.
#pragma once

typedef struct pthreadpool* pthreadpool_t;
