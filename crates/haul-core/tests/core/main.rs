//! The core without a store: filters, signatures, sorting on disk, tuners, and how work is shared by many ranks.

mod filter_vs_rsync;
mod scaling;
mod signature;
mod spill;
mod team_tuner;
mod tuner;
