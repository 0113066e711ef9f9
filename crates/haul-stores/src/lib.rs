//! The places that haul moves data between, one folder a backend.

#[cfg(feature = "memory")]
pub mod discard;
#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "memory")]
pub mod synthetic;
