//! The program from end to end, on local paths. Needs root, rsync and the mkfs programs.

mod attributes;
mod bad_input;
mod check;
mod checksums;
mod deletes;
mod destinations;
mod doctor;
mod dry;
mod json;
mod limits;
mod moves;
mod outlets;
mod passphrase;
mod place;
mod race;
mod rm;
mod selection;
mod set;
mod shown;
mod slash;
mod sources;
mod space;
mod support;
mod user;
