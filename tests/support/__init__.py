"""What tests share: networks, reference models, emulated devices, processes."""
