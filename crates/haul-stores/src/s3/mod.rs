//! Object stores that speak Amazon S3's protocol.

pub mod account;
pub mod address;
pub mod attributes;
pub mod checksum;
pub mod index;
pub mod sign;
pub mod trust;
pub mod xml;
