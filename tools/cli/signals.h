// SPDX-License-Identifier: Apache-2.0
// How the program ends by a signal.
#pragma once

namespace arenite::tool {

// A signal that ends the program removes its temporary files first, and then ends it as if nobody
// had caught it, so that a shell sees which one it was. Signals that were ignored, as below nohup,
// stay ignored. Writing to a pipe without a reader, and beyond a limit of file sizes, become errors
// like those of a full disk.
void handle_signals();

}  // namespace arenite::tool
