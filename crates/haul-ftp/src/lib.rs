//! FTP servers: `ftp://` in clear text, `ftps://` with TLS, `gsiftp://` with the certificates of grids, `sshftp://` through ssh.
//!
//! ```text
//! provider -> host -> store -> look (one name, a directory)      -> pool (sessions) -> login (one session) -> secret
//!                           -> source, sink, fxp, batch (puts, gets), change, digest     -> session, data      -> control, reply, stream
//!                                                                                       (transfers)            (commands)
//! ```
//!
//! With GridFTP servers: sink -> ranged, puts -> extended (data to the server in blocks); source, gets -> intake (data from it).
//! Both over several data nodes, where a server has them: stripes.
//!
//! A transfer takes a control connection and a data connection, so that files move side by side only over several sessions; what
//! is asked of one session is asked of many names at once, before the first answer is there (RFC 959, 2228, 2389, 2428, 3659,
//! 4217). What a server can do is in `features`; how it lists is read by `facts` (MLSD) and `dialect` (LIST).

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod batch;
mod change;
mod control;
mod data;
mod device;
mod dialect;
mod digest;
mod examine;
mod extended;
mod facts;
mod features;
mod flags;
mod fxp;
mod gets;
mod grid;
mod gsi;
mod host;
mod intake;
mod line;
mod login;
mod look;
mod names_proof;
mod passive;
mod paths;
mod pool;
mod provider;
mod puts;
mod ranged;
mod ranges;
mod ranges_proof;
mod relay;
mod reply;
mod secret;
mod session;
mod shell;
mod sink;
mod source;
mod staged;
mod store;
mod stream;
mod stripes;

pub use device::{Device, Device as Stream, Files};
pub use examine::Examined;
pub use flags::Flags;
pub use host::FtpHost;
pub use provider::{FTP, FTPS, FtpProvider, GSIFTP, SSHFTP};
