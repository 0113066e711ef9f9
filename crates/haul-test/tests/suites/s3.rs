//! The conformance suite over S3: real servers of two makes, each check in a prefix of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_s3::{Objects, Options, PutOptions};
use haul_test::objects::{Endpoint, ObjectServer};
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

fn started(server: std::io::Result<ObjectServer>) -> ObjectServer {
    let server = server.expect("the server can be started: servers.sh installs it");
    server.make_bucket(BUCKET).expect("a bucket");
    server
}

/// One server for all checks, as long as the process lives.
fn minio() -> Fixture {
    static SERVER: OnceLock<ObjectServer> = OnceLock::new();
    fixture(SERVER.get_or_init(|| started(ObjectServer::minio())).endpoint())
}

fn gateway() -> Fixture {
    static SERVER: OnceLock<ObjectServer> = OnceLock::new();
    fixture(SERVER.get_or_init(|| started(ObjectServer::versitygw())).endpoint())
}

store_suite!(minio, minio);

/// All checks but `any_name_can_be_made`: this server's listings have replacement characters where a key has control
/// characters, whatever encoding was asked for.
mod versitygw {
    use super::*;

    store_suite! { @common gateway }
    store_suite! { @tests gateway;
        write: what_the_old_version_has_is_reused;
        read: a_listing_tells_what_it_says, links_are_followed_only_when_asked;
        names: a_name_that_is_too_long_is_refused;
        meta: attributes_survive_a_commit, attributes_are_set_on_everything;
    }
}
