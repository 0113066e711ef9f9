//! Backends.

#[cfg(feature = "memory")]
pub mod discard;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "memory")]
pub mod synthetic;
