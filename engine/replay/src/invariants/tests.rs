//! The invariants hold on the engine's own logs, and each tampering is named.
