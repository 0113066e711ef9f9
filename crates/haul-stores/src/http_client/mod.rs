//! What the backends that speak HTTP have in common, `s3` and `web`: agents, digests of what arrives, parallel requests.

pub mod agent;
pub(crate) mod body;
pub(crate) mod contact;
pub mod digest;
mod environment;
pub mod etag;
mod flags;
pub(crate) mod pace;
pub(crate) mod parallel;
pub mod time;
pub(crate) mod verifier;

pub(crate) use body::Body;
pub use environment::Environment;
pub use flags::TlsFlags;
