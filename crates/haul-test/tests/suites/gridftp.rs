//! The conformance suite over GridFTP with certificates: Globus's server, with data connections that are authenticated, encrypted, and
//! neither of them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use haul_core::error::Result;
use haul_core::place::Host;
use haul_core::place::provider::{Access, Provider as _};
use haul_ftp::{Flags, FtpProvider};
use haul_run::registry;
use haul_test::gsiftpd::{Authority, GsiServer, Valid};
use haul_test::store_suite;
use haul_test::suite::Fixture;

/// One server and one authority for all checks. The credential is found as that of a user is: by variables, which are the same for all.
struct Grid {
    server: GsiServer,
    _place: tempfile::TempDir,
}

fn grid() -> &'static Grid {
    static GRID: OnceLock<Grid> = OnceLock::new();
    GRID.get_or_init(|| {
        let place = tempfile::tempdir().expect("a temporary directory");
        let authority = Authority::make(&place.path().join("authority")).expect("openssl makes certificates");
        let proxy = authority.proxy("proxy", "user", Valid::LONG).expect("a proxy");
        let server = GsiServer::start(&authority, "host", &[]).expect("globus-gridftp-server-progs is installed");
        set("X509_USER_PROXY", proxy);
        set("X509_CERT_DIR", authority.trusted());
        Grid { server, _place: place }
    })
}

fn set(name: &str, value: PathBuf) {
    // SAFETY: once, before the first session is made, which is what reads it; nothing else here reads or writes the environment.
    unsafe { std::env::set_var(name, value) };
}

fn host(flags: &Flags) -> Result<Arc<dyn Host>> {
    let location = registry::parse(grid().server.url("/").as_ref(), &|_| false).expect("an address");
    FtpProvider.connect(&Access::default().with(Arc::new(flags.clone())), &location)
}

/// A directory of its own on a host that all checks share: for each login the server makes a key of 2,048 bits, which takes a second.
fn fixture(shared: &'static OnceLock<Arc<dyn Host>>, flags: Flags) -> Fixture {
    Fixture::of_host(move || shared.get_or_init(|| host(&flags).expect("it lets the user in")).clone())
}

static AUTHENTICATED: OnceLock<Arc<dyn Host>> = OnceLock::new();
store_suite!(authenticated, || fixture(&AUTHENTICATED, Flags::default()));

/// The checks that move data, over other kinds of data connections.
macro_rules! of_data {
    ($name:ident, $flags:expr) => {
        mod $name {
            use super::*;

            static SHARED: OnceLock<Arc<dyn Host>> = OnceLock::new();
            store_suite! { @tests || fixture(&SHARED, $flags);
                write: files_of_every_size_come_back, chunks_come_in_the_order_it_grants, a_short_source_is_changed,
                    abort_leaves_the_old_file_and_nothing_else, a_session_goes_on_in_another_store, sixteen_write_one_file,
                    a_staged_file_can_be_read_back, a_parent_that_is_missing_is_said;
                read: any_range_can_be_read, a_directory_that_is_absent_cannot_be_listed, what_was_written_can_be_reopened,
                    a_file_that_changed_since_it_was_listed_is_changed;
                names: any_name_can_be_made;
                bundles: a_bad_item_fails_alone, a_bundle_replaces_whole_files, a_bundle_keeps_attributes;
            }
        }
    };
}

of_data!(encrypted, Flags { dcpriv: true, ..Flags::default() });
of_data!(plain_data, Flags { no_dcau: true, ..Flags::default() });
