//! The engine on stores in memory: what moves, what is looked up, what is deleted, what is reported.

mod copy;
mod support;
