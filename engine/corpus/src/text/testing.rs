//! Templates by hand, for tests.
