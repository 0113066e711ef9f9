//! What the tests of haul stand on: the conformance suite that defines a backend, file systems that are slow
//! or fail on command, trees to copy, and a comparer that shares no code with what it judges.
//!
//! - [`suite`] is the conformance suite; [`fault`] wraps any store and fails, delays or falsifies on command.
//! - [`tree`] makes trees: from a line of text, at random from a seed, as nasty as a file system allows, or large and fast.
//! - [`scratch`] is a directory of its own for one test; [`program`] runs the program in it and looks at how it ended.
//! - [`documented`] has the keys that docs/json.md names.
//! - [`compare`] says in what two trees differ. It shares no code with what it judges.
//! - [`volume`] makes a fresh file system of a kind and takes it away again.
//! - [`slowfs`] is a FUSE pass-through with delays and scripted faults.
//! - [`sshd`] starts an OpenSSH server with keys of its own; [`world`] is one with a scratch directory.
//! - [`account`] makes an account of this machine for the time of a test; [`pty`] is a terminal with a person at it.
//! - [`ssh_makes`] starts servers whose SFTP is of another make.
//! - [`gridftpd`] starts a GridFTP server, a striped one too, [`gsiftpd`] one with certificates, [`ftpd`] FTP servers of several makes; [`ftp_rogue`] is one that lies.
//! - [`rogue`] is an SFTP server that lies, [`parallel`] one that does requests side by side.
//! - [`objects`] starts servers of object stores, and one that answers chosen requests as a test says.
//! - [`link`] is a network link with a delay, a rate and loss, between two network namespaces.
//! - [`shape`] is a source of deep trees and of files with many names, which exist nowhere.
//! - [`slurm`] is a cluster of one node, with a real Slurm.
//! - [`ignored`] sets which signals a command ignores from its start.
//! - [`nobody`] runs a command without root's rights.

pub mod account;
pub mod apart;
pub mod compare;
pub mod content;
pub mod documented;
pub mod fault;
pub mod ftp_rogue;
pub mod ftpd;
pub mod gridftpd;
pub mod gsiftpd;
pub mod ignored;
pub mod link;
pub mod memory;
pub mod nasty;
pub mod nobody;
pub mod objects;
pub mod parallel;
pub mod port;
pub mod program;
pub mod pty;
pub mod rogue;
pub mod scratch;
pub mod shape;
pub mod slowfs;
pub mod slurm;
pub mod ssh_makes;
pub mod sshd;
pub mod suite;
pub mod tree;
pub mod volume;
pub mod web;
pub mod world;
