//! A haul on the remote host: whole files, chunks and listings travel without a round trip each, and the remote haul keeps
//! every attribute that its file systems can.
//!
//! ```text
//! store, file (the contract)  ->  session (links to one remote haul)  ->  link (frames, answers)  ->  wire (values)
//!                                                                          |
//! server (the far side's own stores)  <------------------------------------+
//! ```

mod data;
mod direct;
mod examine;
mod file;
mod greeting;
mod link;
mod measure;
pub mod ops;
pub mod seal;
mod server;
mod session;
mod squeeze;
mod store;
mod wire;

pub use data::DATA;
pub use direct::Ports;
pub use examine::Attempt;
pub use greeting::{Far, Pipes, ended_silently, missing_platform, widen};
pub use link::Carrier;
pub use measure::{Load, MadeUp, Measuring, Pending, Streams, Tally};
pub use server::{Options, join, serve};
pub use session::{Connect, Direct, Learned, Reached, Wishes};
pub use store::{Host, Remote, RootOptions};
