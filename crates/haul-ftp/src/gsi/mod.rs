//! The Grid Security Infrastructure without its libraries: X.509 certificates and proxies, TLS as a security context of GSSAPI.
//!
//! ```text
//! credential (the user's) -> delegate (a proxy for the server)
//! trust (whom to believe) -> policy       -> context (tokens) -> lines (the control connection)
//!                                         -> guard (data connections)
//! ```
//!
//! rustls does TLS, and its webpki verifies servers; both refuse proxy certificates, which `certificate` and `der` read.

mod certificate;
mod context;
mod credential;
mod delegate;
mod der;
mod guard;
mod lines;
mod passphrase;
mod policy;
mod revoked;
#[cfg(test)]
mod tests;
mod trust;

pub use context::{Context, refused};
pub use credential::Credential;
pub use delegate::sign;
pub use guard::Guard;
pub use lines::Lines;
pub use trust::{Authorities, Refusal};

/// Seconds since 1970.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
