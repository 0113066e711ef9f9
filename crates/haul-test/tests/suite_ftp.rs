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

            store_suite! { @common $make }
            store_suite! { @tests $make;
                write: what_the_old_version_has_is_reused, an_unfinished_write_does_not_keep_its_directory;
                read: a_listing_tells_what_it_says, links_are_followed_only_when_asked;
                names: any_name_can_be_made, a_name_that_is_too_long_is_refused;
                meta: attributes_survive_a_commit;
            }
        }
    };
}

of_files!(vsftpd, || on(&VSFTPD, || FtpServer::vsftpd("")));
of_files!(pyftpdlib, || on(&PYFTPDLIB, || FtpServer::pyftpdlib("")));
store_suite!(proftpd, || on(&PROFTPD, || FtpServer::proftpd("")));
