//! What the tests of one server share.

use haul_test::account::Account;
use haul_test::compare::What;
pub use haul_test::world::World;

/// What plain SFTP keeps: times are whole seconds.
pub const SAME: What = What { mtime: Some(1_000_000_000), ..What::USUAL };

pub const DIRECTIONS: [(&str, &str); 2] = [("src/ testhost:~/there", "there"), ("testhost:~/src/ here", "here")];

/// A large file and many small ones below `src`: enough for several channels at once.
pub fn plenty(lines: &str) -> World {
    let w = World::served("src: big=20M", lines);
    haul_test::tree::spread(&w.path("src/many"), 4, 50, 2000).expect("made");
    w
}

pub fn account(shell: &str) -> Account {
    Account::new(shell).unwrap_or_else(|e| panic!("an account with {shell}: useradd and root: {e}"))
}
