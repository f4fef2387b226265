// increment: num_batches_tracked = num_batches_tracked + 1.
//
//     ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
//
// Reads num_batches_tracked once, writes num_batches_tracked once.

#include <cstdint>

// A single element.
extern "C" void increment(int64_t *num_batches_tracked) {  // one element; updated in place
  num_batches_tracked[0] = num_batches_tracked[0] + 1;
}
