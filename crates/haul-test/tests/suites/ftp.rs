//! The conformance suite over FTP: vsftpd, which lists as `ls` does, ProFTPD and pyftpdlib, which have MLSD; one server each for
//! all checks.

use std::io;
use std::sync::{Arc, OnceLock};

use haul_core::error::Result;
use haul_core::place::Host;
use haul_core::place::provider::{Access, Provider as _};
use haul_ftp::FtpProvider;
use haul_run::registry;
use haul_test::ftpd::{FtpServer, PASSWORD, USER};
use haul_test::store_suite;
use haul_test::suite::Fixture;

fn host(server: &FtpServer) -> Result<Arc<dyn Host>> {
    let address = format!("ftp://{USER}:{}@127.0.0.1:{}/", PASSWORD.replace(' ', "%20"), server.port);
    let location = registry::parse(address.as_ref(), &|_| false).expect("an address");
    FtpProvider.connect(&Access::default(), &location)
}

/// One server for all checks of a module.
type Server = OnceLock<FtpServer>;

fn on(server: &'static Server, start: fn() -> io::Result<FtpServer>) -> Fixture {
    let server = server.get_or_init(|| start().expect("an FTP server: ftp-servers.sh installs two, and proftpd-core is installed"));
    Fixture::of_host(move || host(server).expect("it lets root in"))
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
