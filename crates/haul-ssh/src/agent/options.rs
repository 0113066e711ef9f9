//! What the user allows and wants of a session with a remote haul.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use haul_core::error::Error;

use super::direct::Ports;
use super::site::Site;
use crate::link_saturation::Widen;

pub struct SessionOptions {
    /// Links through ssh at the most.
    pub sessions: usize,
    /// Links that carry data, exactly so many; `None`: haul chooses. `sessions` bounds those through ssh all the same.
    pub streams: Option<usize>,
    /// How long the remote haul may take to greet, the start-up files of its user included.
    pub greeting: Duration,
    /// How long an answer may take; `None`: as long as the remote haul is alive.
    pub answer_timeout: Option<Duration>,
    pub version: &'static str,
    /// `-z`: frames are compressed where that helps.
    pub compress: bool,
    /// Data connections beside ssh; `None` where they are not wanted.
    pub direct: Option<Direct>,
    pub site: Site,
    /// Called once, when the connection that carries all links through ssh is full; `None`: never.
    pub widen: Option<Box<Widen>>,
}

/// See [`crate::ssh::Login::reached`].
pub type Reachable = dyn Fn(IpAddr) -> Option<IpAddr> + Send + Sync;

/// The result of data connections, for later runs.
#[derive(Debug)]
pub enum DirectOutcome {
    Works,
    /// None could be made.
    Blocked,
    /// They were made, and failed time and again: from now on the data of this session goes through ssh.
    Fails(Error),
}

/// Called with what the next run should know, from any thread.
pub type ReportOutcome = dyn Fn(&DirectOutcome) + Send + Sync;

pub struct Direct {
    pub ports: Ports,
    /// The remote end may connect to this one, which listens for it.
    pub accept: bool,
    /// The address to try for a remote end that claims this one.
    pub reached: Box<Reachable>,
    pub report_outcome: Arc<ReportOutcome>,
}
