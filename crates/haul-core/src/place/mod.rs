//! Where data is: addresses, and the hosts that providers reach for them.

pub mod address;
pub mod host;
pub mod provider;
mod text;
pub mod url;

pub use address::{Location, Scheme, Syntax};
pub use host::{DataPath, Host, OpenOptions, Role};
pub use text::AddressError;
