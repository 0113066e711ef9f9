//! Pipes and devices as stores: their content is read or written once, from its start to its end.

mod closed;
mod input;
mod output;

use haul_core::store::Place;

pub use closed::is_closed;
pub use input::Input;
pub use output::Output;

fn place() -> Place {
    let (endpoint, account, volume) = (String::new(), String::new(), String::new());
    Place { scheme: "stream", endpoint, account, volume, root: b"/".to_vec() }
}
