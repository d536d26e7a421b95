// SPDX-License-Identifier: Apache-2.0
// Replaces the pthreadpool library. XNNPACK's headers only name this pointer type, and no
// microkernel takes one, so the library itself is not needed.
#pragma once

typedef struct pthreadpool* pthreadpool_t;
