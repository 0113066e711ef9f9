//! Runs that are killed, stopped, starved or lied to, and the runs that go on after them.
//!
//! Each test starts the program itself, in an environment of its own; every wait is bounded.

mod batch;
mod changed;
mod faults;
mod journal;
mod kill;
mod reboot;
mod signals;
mod specs;
mod stateless;
mod support;
mod twice;
mod verify;
