//! it

mod plans;
