//! The conformance suite over S3: real servers of two makes, each check in a prefix of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_stores::s3::{Objects, Options, PutOptions};
use haul_test::objects::{Endpoint, Minio, Server, Versitygw};
use haul_test::store_suite;
use haul_test::suite::Fixture;

const BUCKET: &str = "suite";

fn fixture(endpoint: &Endpoint) -> Fixture {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("check-{}/", NEXT.fetch_add(1, Ordering::Relaxed));
    let endpoint = endpoint.clone();
    let open = move || Objects::new(endpoint.bucket(BUCKET, PutOptions::default()), prefix.as_bytes(), Options::default());
    Fixture::new(open, ())
}

fn started<S: Server>(server: std::io::Result<S>) -> S {
    let server = server.expect("the server can be started: servers.sh installs it");
    server.make_bucket(BUCKET).expect("a bucket");
    server
}

/// One server for all checks, as long as the process lives.
fn minio() -> Fixture {
    static SERVER: OnceLock<Minio> = OnceLock::new();
    fixture(SERVER.get_or_init(|| started(Minio::start())).endpoint())
}

fn gateway() -> Fixture {
    static SERVER: OnceLock<Versitygw> = OnceLock::new();
    fixture(SERVER.get_or_init(|| started(Versitygw::start())).endpoint())
}

store_suite!(minio, minio);

/// All checks but `any_name_can_be_made`: this server's listings have replacement characters where a key has control
/// characters, whatever encoding was asked for.
mod versitygw {
    use super::*;

    store_suite! { @tests gateway;
        write: files_of_every_size_come_back, chunks_come_in_the_order_it_grants, a_chunk_may_come_twice,
            a_short_source_is_changed, a_long_source_is_cut, an_error_of_the_source_comes_through,
            abort_leaves_the_old_file_and_nothing_else, a_session_goes_on_in_another_store, a_session_that_was_given_up_is_not_found,
            creating_again_begins_from_nothing, a_reader_sees_old_or_new_never_a_part, a_commit_wants_every_receipt,
            a_file_never_replaces_a_directory, a_parent_that_is_missing_is_said, sixteen_write_at_once, sixteen_write_one_file,
            in_place_keeps_the_inode, what_the_old_version_has_is_reused, a_staged_file_can_be_read_back, holes_read_as_zeros, an_unfinished_write_is_in_no_listing;
        read: any_range_can_be_read, reading_past_the_end_is_changed, a_file_that_changed_since_it_was_listed_is_changed,
            a_stamp_is_that_of_the_entry, a_listing_is_whole_whatever_its_size, a_listing_stops_when_told, a_listing_tells_what_it_says,
            a_directory_that_is_absent_cannot_be_listed, many_names_are_looked_up_in_order,
            a_fifo_is_not_waited_for, links_are_followed_only_when_asked, what_was_written_can_be_reopened,
            a_digest_is_that_of_the_content, errors_carry_operation_name_and_kind;
        names: case_is_folded_as_it_says, hostile_names_are_refused, a_name_that_is_too_long_is_refused, directories_are_made, links_and_special_files_are_made,
            hard_links_are_one_file, what_is_removed_is_gone, what_changed_is_not_removed, renaming_replaces_only_when_told,
            directories_are_renamed, a_link_to_a_directory_is_not_entered, room_is_told, a_copy_within_equals_a_plain_copy;
        bundles: a_thousand_files_go_in_and_out, a_bad_item_fails_alone, a_bundle_replaces_whole_files,
            direct_never_harms_what_is_there, a_file_that_changed_is_never_mixed, items_that_failed_are_left_alone, a_bundle_keeps_attributes;
        meta: attributes_survive_a_commit, attributes_are_set_on_everything, times_are_kept_to_the_grain,
            extended_attributes_survive, attributes_of_what_is_absent_fail;
    }
}
