// add_gradients: d_x = d_x_from_shortcut + d_x_from_conv1.
//
//     ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
//
// Reads d_x_from_shortcut and d_x_from_conv1 once, writes d_x once.

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// Threads divide the elements; each works through SIMD lanes.
extern "C" void add_gradients(
    const float *d_x_from_shortcut,  // (n_elements,)
    const float *d_x_from_conv1,     // (n_elements,)
    float *d_x,                      // (n_elements,); may be d_x_from_conv1
    long n_elements) {
#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)
  for (long i = 0; i < n_elements; ++i) {
    d_x[i] = d_x_from_shortcut[i] + d_x_from_conv1[i];
  }
}
