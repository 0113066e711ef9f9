//! What the backends that speak HTTP have in common, `s3` and `web`: agents, digests of what arrives, parallel requests.

pub mod agent;
pub mod body;
pub mod contact;
pub mod digest;
mod environment;
pub mod etag;
mod flags;
pub mod pace;
pub mod parallel;
pub mod time;
pub mod verifier;

pub use body::Body;
pub use environment::Environment;
pub use flags::TlsFlags;
