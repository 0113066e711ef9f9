//! SSH hosts: over plain SFTP, and with haul at both ends.

mod agent;
mod ssh;
mod sshftp;
mod suite_agent;
