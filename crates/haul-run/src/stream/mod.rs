//! Pipes and devices as stores: their content is read or written once, from its start to its end.

mod closed;
mod input;
mod output;

use haul_core::store::Place;

pub use closed::is_closed;
pub use input::Input;
pub use output::Output;

fn place() -> Place {
    Place { scheme: "stream", root: b"/".to_vec(), ..Place::default() }
}
