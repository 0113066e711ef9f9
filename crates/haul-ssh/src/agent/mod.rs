//! A haul on the remote host: whole files, chunks and listings travel without a round trip each, and the remote haul keeps
//! every attribute that its file systems can.
//!
//! ```text
//! store, source, sink (the contract)  ->  session (links to one remote haul)  ->  link, frame  ->  wire (values)
//!                                                                                   |
//! server (the remote host's own stores)  <------------------------------------------+
//! ```

mod bundles;
mod compress;
mod data;
mod direct;
mod examine;
mod frame;
mod greeting;
mod handle;
mod host;
mod link;
mod listing;
mod measure;
mod ops;
mod options;
mod pieces;
mod root;
mod server;
mod session;
mod sink;
mod site;
mod source;
mod store;
mod tls;
mod watch;
mod wire;
mod work;

pub use data::DATA;
pub use direct::{LISTENING, Ports};
pub use examine::Attempt;
pub use greeting::{Pipes, RemoteInfo, ended_silently, missing_platform, widen};
pub use host::{Host, RootOptions};
pub use link::Transport;
pub use measure::{Load, MadeUp, Measuring, Pending, Streams, Tally};
pub(crate) use ops::MAGIC;
pub use ops::VERSION as PROTOCOL;
pub use options::{Direct, DirectOutcome, Reachable, SessionOptions};
pub use server::{Confined, Options, SILENCE, join, serve};
pub use session::Connect;
pub(crate) use site::ports;
pub use site::{NO_DATA, Site};
pub use store::Remote;
pub(crate) use tls::has_aes;
