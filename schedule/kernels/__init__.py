"""From one fused nest to a kernel's complete plan: its space, passes, addresses, masks and tunables."""
