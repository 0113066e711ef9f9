//! The program against real object stores on loopback, and against one that answers as a test says.

mod support;

mod accounts;
mod between;
mod between_servers;
mod buckets;
mod check;
mod checksum_modes;
mod chosen;
mod documented;
mod etags;
mod faults;
mod flags;
mod in_place;
mod keys;
mod large;
mod listing_json;
mod matrix;
mod narrow;
mod object;
mod others;
mod owners;
mod pipes;
mod put_options;
mod refused;
mod requests;
mod roles;
mod strange;
mod sync;
mod tree;
mod trust;
mod wildcards;
