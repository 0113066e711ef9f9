//! What a backend is: the contract of `haul_core::store` as checks that every store and every wrapper passes.
//!
//! Checks are chosen by `Caps` and made both ways: what is granted works, what is denied answers
//! `Unsupported`, so `Caps` cannot lie. One line runs them all, each as a test of its own:
//!
//! ```
//! use haul_test::memory::Memory;
//! use haul_test::suite::Fixture;
//!
//! haul_test::store_suite!(memory, || Fixture::of_memory(Memory::new()));
//! ```
//!
//! Where the contract leaves room, the check says in its comment what it takes for right.

pub mod bundles;
pub mod meta;
pub mod names;
pub mod read;
pub mod tools;
pub mod write;

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::memory::Memory;
use haul_core::error::Result;
use haul_core::place::{Host, OpenOptions, Role};
use haul_core::store::Store;

/// An empty place, opened, and what a check needs of it beside the contract.
pub struct Fixture {
    pub store: Arc<dyn Store>,
    /// Opens the same place another time, as another process would.
    pub again: Box<dyn Fn() -> Arc<dyn Store>>,
    pub outside: Outside,
    /// Temporary directories and servers that live as long as the check.
    pub keep: Box<dyn Any>,
}

/// Makes a symlink, by its name and its target.
pub type PlantLink = Box<dyn Fn(&str, &str)>;

/// Ways to the place that pass the store by. Checks that need one which is `None` use the store instead, or do less.
#[derive(Default)]
pub struct Outside {
    /// Makes a symlink: what it points to, then its path below the root.
    pub link: Option<PlantLink>,
    /// Everything that is there, unfinished writes and all, as paths below the root in any form that stays the same.
    pub names: Option<Box<dyn Fn() -> Vec<Vec<u8>>>>,
}

impl Outside {
    /// Of a directory of this machine.
    fn of(path: &Path) -> Outside {
        let (for_links, for_names) = (path.to_path_buf(), path.to_path_buf());
        let link = move |target: &str, at: &str| {
            std::os::unix::fs::symlink(target, for_links.join(at)).expect("a symlink can be made in the temporary directory");
        };
        Outside { link: Some(Box::new(link)), names: Some(Box::new(move || tools::walk(&for_names))) }
    }
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.store)
    }
}

impl Fixture {
    /// The place is what `open` opens, each time anew.
    pub fn new<S: Store + 'static>(open: impl Fn() -> S + 'static, keep: impl Any) -> Self {
        let again = move || Arc::new(open()) as Arc<dyn Store>;
        Fixture { store: again(), again: Box::new(again), outside: Outside::default(), keep: Box::new(keep) }
    }

    pub fn of_memory(memory: Memory) -> Self {
        let other = memory.again();
        let seen = memory.again();
        let names = move || {
            let mut names = seen.paths();
            names.extend((0..seen.sessions()).map(|i| format!("session {i}").into_bytes()));
            names
        };
        Fixture { outside: Outside { names: Some(Box::new(names)), ..Outside::default() }, ..Fixture::new(move || other.again(), ()) }
    }

    /// A store on a new temporary directory of this machine, for `open` given its path; hooks included.
    pub fn of_directory<S: Store + 'static>(open: impl Fn(&Path) -> Result<S> + 'static) -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory can be made");
        Self::in_directory(temporary.path().to_path_buf(), open, temporary)
    }

    /// The same for a directory that is there and empty: one on a file system made for the test.
    pub fn in_directory<S: Store + 'static>(path: std::path::PathBuf, open: impl Fn(&Path) -> Result<S> + 'static, keep: impl Any) -> Self {
        let outside = Outside::of(&path);
        Fixture { outside, ..Fixture::new(move || open(&path).expect("the place can be opened"), keep) }
    }

    /// A new temporary directory on a server of this machine, reached by a login of its own each time.
    pub fn of_host(connect: impl Fn() -> Arc<dyn Host> + 'static) -> Self {
        let keep = tempfile::tempdir().expect("a temporary directory can be made");
        let (outside, path) = (Outside::of(keep.path()), keep.path().to_path_buf());
        let open = move || -> Arc<dyn Store> {
            let options = OpenOptions { role: Role::Destination, ..OpenOptions::default() };
            connect().open(path.as_os_str().as_encoded_bytes(), options).expect("the directory can be opened")
        };
        Fixture { store: open(), again: Box::new(open), outside, keep: Box::new(keep) }
    }

    /// The same place behind a wrapper.
    #[must_use]
    pub fn wrapped<S: Store + 'static>(self, wrap: impl Fn(Arc<dyn Store>) -> S + 'static) -> Self {
        let Fixture { store, again, outside, keep } = self;
        let store = Arc::new(wrap(store));
        Fixture { store, again: Box::new(move || Arc::new(wrap(again()))), outside, keep }
    }
}

/// One test for each check, in a module of the given name; `$make` gives a `Fixture` on an empty place each time. `@common` has
/// the checks that every server of a protocol that can write passes; `@tests` has those that are named.
#[macro_export]
macro_rules! store_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the constructor may need nothing from outside")]
            use super::*;
            $crate::store_suite! { @common $make }
            $crate::store_suite! { @tests $make;
                write: what_the_old_version_has_is_reused, an_unfinished_write_does_not_keep_its_directory;
                read: a_listing_tells_what_it_says, links_are_followed_only_when_asked;
                names: any_name_can_be_made, a_name_that_is_too_long_is_refused;
                meta: attributes_survive_a_commit, attributes_are_set_on_everything;
            }
        }
    };
    (@common $make:expr) => {
        $crate::store_suite! { @tests $make;
            write: files_of_every_size_come_back, chunks_come_in_the_order_it_grants, a_chunk_may_come_twice,
                a_short_source_is_changed, a_long_source_is_cut, an_error_of_the_source_comes_through,
                abort_leaves_the_old_file_and_nothing_else, a_session_goes_on_in_another_store,
                a_session_that_was_given_up_is_not_found, creating_again_begins_from_nothing,
                a_reader_sees_old_or_new_never_a_part, a_commit_wants_every_receipt,
                a_file_never_replaces_a_directory, a_parent_that_is_missing_is_said, sixteen_write_at_once,
                sixteen_write_one_file, in_place_keeps_the_inode, a_staged_file_can_be_read_back, holes_read_as_zeros,
                an_unfinished_write_is_in_no_listing;
            read: any_range_can_be_read, reading_past_the_end_is_changed,
                a_file_that_changed_since_it_was_listed_is_changed, a_stamp_is_that_of_the_entry,
                a_listing_is_whole_whatever_its_size, a_listing_stops_when_told,
                a_directory_that_is_absent_cannot_be_listed, many_names_are_looked_up_in_order,
                a_fifo_is_not_waited_for, what_was_written_can_be_reopened, a_digest_is_that_of_the_content,
                errors_carry_operation_name_and_kind;
            names: case_is_folded_as_it_says, hostile_names_are_refused, directories_are_made,
                links_and_special_files_are_made, hard_links_are_one_file, what_is_removed_is_gone,
                what_changed_is_not_removed, renaming_replaces_only_when_told, directories_are_renamed,
                a_link_to_a_directory_is_not_entered, room_is_told, a_copy_within_equals_a_plain_copy;
            bundles: a_thousand_files_go_in_and_out, a_bad_item_fails_alone, a_bundle_replaces_whole_files,
                direct_never_harms_what_is_there, a_file_that_changed_is_never_mixed,
                items_that_failed_are_left_alone, a_bundle_keeps_attributes;
            meta: times_are_kept_to_the_grain, extended_attributes_survive, attributes_of_what_is_absent_fail;
        }
    };
    (@tests $make:expr; $($group:ident: $($check:ident),+;)+) => {
        $($(
            #[test]
            fn $check() {
                $crate::suite::$group::$check(&($make)());
            }
        )+)+
    };
}
