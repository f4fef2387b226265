"""How exactly a kernel computes: decided from its body, kept in its plan, and only printed afterwards."""
