//! The engine on stores in memory: what moves, what is looked up, what is deleted, what is reported.

mod copy;
mod delete;
mod fault;
mod faults;
mod limits;
mod memory;
mod network;
mod objects;
mod property;
mod roots;
mod streams;
mod stress;
mod support;
mod survey;
mod team;
mod together;
mod verify;
