//! The conformance suite over FTP: vsftpd, which lists as `ls` does, ProFTPD and pyftpdlib, which have MLSD; one server each for
//! all checks.

use std::io;
use std::os::unix::fs::symlink;
use std::sync::{Arc, OnceLock};

use haul_core::error::Result;
use haul_core::place::{Host, OpenOptions, Role};
use haul_core::store::Store;
use haul_stores::ftp::FtpProvider;
use haul_stores::provider::{Access, Provider as _};
use haul_stores::registry;
use haul_test::ftpd::{FtpServer, PASSWORD, USER};
use haul_test::store_suite;
use haul_test::suite::tools::walk;
use haul_test::suite::{Fixture, Outside};

fn host(server: &FtpServer) -> Result<Arc<dyn Host>> {
    let address = format!("ftp://{USER}:{}@127.0.0.1:{}/", PASSWORD.replace(' ', "%20"), server.port);
    let location = registry::parse(address.as_ref(), &|_| false).expect("an address");
    FtpProvider.connect(&Access::default(), &location)
}

/// A new directory, each time reached by a login of its own.
fn fixture(server: &'static FtpServer) -> Fixture {
    let keep = tempfile::tempdir().expect("a temporary directory");
    let path = keep.path().to_path_buf();
    let (for_links, for_names) = (path.clone(), path.clone());
    let open = move || -> Arc<dyn Store> {
        let options = OpenOptions { role: Role::Destination, ..OpenOptions::default() };
        let host = host(server).expect("it lets root in");
        host.open(path.as_os_str().as_encoded_bytes(), options).expect("a directory")
    };
    let link = move |target: &str, at: &str| symlink(target, for_links.join(at)).expect("a symlink can be made");
    let outside = Outside { link: Some(Box::new(link)), names: Some(Box::new(move || walk(&for_names))) };
    Fixture { store: open(), again: Box::new(open), outside, keep: Box::new(keep) }
}

/// One server for all checks of a module.
type Server = OnceLock<FtpServer>;

fn on(server: &'static Server, start: fn() -> io::Result<FtpServer>) -> Fixture {
    fixture(server.get_or_init(|| start().expect("an FTP server: ftp-servers.sh installs two, and proftpd-core is installed")))
}

static VSFTPD: Server = Server::new();
static PROFTPD: Server = Server::new();
static PYFTPDLIB: Server = Server::new();

/// All checks but `attributes_are_set_on_everything`: these servers set times of files alone, not of directories.
macro_rules! of_files {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            store_suite! { @tests $make;
                write: files_of_every_size_come_back, chunks_come_in_the_order_it_grants, a_chunk_may_come_twice,
                    a_short_source_is_changed, a_long_source_is_cut, an_error_of_the_source_comes_through,
                    abort_leaves_the_old_file_and_nothing_else, a_session_goes_on_in_another_store, a_session_that_was_given_up_is_not_found,
                    creating_again_begins_from_nothing, a_reader_sees_old_or_new_never_a_part, a_commit_wants_every_receipt,
                    a_file_never_replaces_a_directory, a_parent_that_is_missing_is_said, sixteen_write_at_once, sixteen_write_one_file,
                    in_place_keeps_the_inode, what_the_old_version_has_is_reused, a_staged_file_can_be_read_back, holes_read_as_zeros, an_unfinished_write_is_in_no_listing,
                    an_unfinished_write_does_not_keep_its_directory;
                read: any_range_can_be_read, reading_past_the_end_is_changed, a_file_that_changed_since_it_was_listed_is_changed,
                    a_stamp_is_that_of_the_entry, a_listing_is_whole_whatever_its_size, a_listing_stops_when_told, a_listing_tells_what_it_says,
                    a_directory_that_is_absent_cannot_be_listed, many_names_are_looked_up_in_order,
                    a_fifo_is_not_waited_for, links_are_followed_only_when_asked, what_was_written_can_be_reopened,
                    a_digest_is_that_of_the_content, errors_carry_operation_name_and_kind;
                names: any_name_can_be_made, case_is_folded_as_it_says, hostile_names_are_refused, a_name_that_is_too_long_is_refused, directories_are_made, links_and_special_files_are_made,
                    hard_links_are_one_file, what_is_removed_is_gone, what_changed_is_not_removed, renaming_replaces_only_when_told,
                    directories_are_renamed, a_link_to_a_directory_is_not_entered, room_is_told, a_copy_within_equals_a_plain_copy;
                bundles: a_thousand_files_go_in_and_out, a_bad_item_fails_alone, a_bundle_replaces_whole_files,
                    direct_never_harms_what_is_there, a_file_that_changed_is_never_mixed, items_that_failed_are_left_alone, a_bundle_keeps_attributes;
                meta: attributes_survive_a_commit, times_are_kept_to_the_grain,
                    extended_attributes_survive, attributes_of_what_is_absent_fail;
            }
        }
    };
}

of_files!(vsftpd, || on(&VSFTPD, || FtpServer::vsftpd("")));
of_files!(pyftpdlib, || on(&PYFTPDLIB, || FtpServer::pyftpdlib("")));
store_suite!(proftpd, || on(&PROFTPD, || FtpServer::proftpd("")));
