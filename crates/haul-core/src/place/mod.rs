//! Where data is: addresses, and the hosts that providers reach for them.

pub mod address;
pub mod host;
pub mod scheme;
pub mod url;

pub use address::{AddressError, Location};
pub use host::{DataPath, Host, OpenOptions, Role};
pub use scheme::{Scheme, Syntax};
