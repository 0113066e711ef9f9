//! The conformance suite over S3: real servers of two makes, each check in a prefix of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_stores::s3::account::{Asked, Environment};
use haul_stores::s3::{Bucket, Client, Objects, Options, Wishes};
use haul_test::store_suite;
use haul_test::suite::Fixture;

fn fixture(url: &str) -> Fixture {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("check-{}-{}/", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let url = url.to_string();
    let open = move || {
        let environment = Environment::table(None, [("AWS_ACCESS_KEY_ID", "haulhaul"), ("AWS_SECRET_ACCESS_KEY", "haulhaul")]);
        let asked = Asked { endpoint_url: Some(url.clone()), environment, ..Asked::default() };
        let client = Arc::new(Client::open(&asked).expect("settings that make sense"));
        let bucket = Bucket { client, name: "suite".into(), wishes: Arc::new(Wishes::default()) };
        Objects::new(bucket, prefix.as_bytes(), Options::default())
    };
    Fixture::new(open, ())
}

store_suite!(minio, || fixture(&std::env::var("S3A").expect("url")));
store_suite!(versitygw, || fixture(&std::env::var("S3B").expect("url")));
