//! What two haul processes say to each other.

pub mod seal;
