use super::*;

/// A home directory with these two files in `.aws`.
pub(super) fn home(config: &str, credentials: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let aws = home.path().join(".aws");
    std::fs::create_dir_all(aws.join("sso/cache")).unwrap();
    std::fs::write(aws.join("config"), config).unwrap();
    std::fs::write(aws.join("credentials"), credentials).unwrap();
    home
}

fn asked(home: &tempfile::TempDir, variables: &[(&str, &str)]) -> AccountOptions {
    let mut all = vec![("AWS_EC2_METADATA_DISABLED", "true")];
    all.extend_from_slice(variables);
    AccountOptions { environment: Environment::table(Some(home.path().into()), all), ..AccountOptions::default() }
}

/// The id of the key that is found.
fn id(asked: &AccountOptions) -> String {
    Account::open(asked).unwrap().credential().unwrap().unwrap().access_key().to_string()
}

const CONFIG: &str = "[default]\nregion = eu-one\naws_access_key_id = CONFIG\naws_secret_access_key = s\n\
                      [profile both]\naws_access_key_id = LATER\naws_secret_access_key = s\n\
                      [profile lone]\naws_access_key_id = LONE\naws_secret_access_key = s\nregion = eu-two\n\
                      endpoint_url = https://lone.example/\ns3 =\n  addressing_style = path\n";
const CREDENTIALS: &str = "[default]\naws_access_key_id = FIRST\naws_secret_access_key = s\n\
                           [both]\naws_access_key_id = BOTH\naws_secret_access_key = s\naws_session_token = t\n[half]\naws_access_key_id = H\n";

#[test]
fn the_environment_comes_before_the_files_and_a_flag_before_both() {
    let home = home(CONFIG, CREDENTIALS);
    let keys = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s")];
    assert_eq!(id(&asked(&home, &[])), "FIRST");
    assert_eq!(id(&asked(&home, &keys)), "ENV");
    assert_eq!(id(&asked(&home, &[keys[0], keys[1], ("AWS_PROFILE", "both")])), "ENV");
    assert_eq!(id(&asked(&home, &[("AWS_PROFILE", "both")])), "BOTH");
    assert_eq!(id(&asked(&home, &[("AWS_DEFAULT_PROFILE", "lone")])), "LONE");
    assert_eq!(id(&AccountOptions { profile: Some("lone".into()), ..asked(&home, &[keys[0], keys[1], ("AWS_PROFILE", "both")]) }), "LONE");
}

#[test]
fn an_endpoint_that_is_not_as_the_settings_want_it_is_refused() {
    let of = |config: &str, variables: &[(&str, &str)]| {
        let home = home(config, "");
        Account::open(&asked(&home, variables)).map(|account| account.variant()).map_err(|e| e.to_string())
    };
    let error = of("[default]\nservices = store\n", &[]).unwrap_err();
    assert!(error.contains("services = store") && error.contains("[services store]"), "{error}");
    assert!(of("[default]\nservices = store\n[services store]\ns3 =\n  endpoint_url = http://h\n", &[]).is_ok());
    assert_eq!(of("[default]\nuse_fips_endpoint = true\n", &[("AWS_USE_FIPS_ENDPOINT", "false")]).unwrap(), Variant::default());
    let all =
        of("[default]\nuse_dualstack_endpoint = true\ns3 =\n  use_accelerate_endpoint = true\n", &[("AWS_USE_FIPS_ENDPOINT", "true")]);
    assert_eq!(
        all.unwrap_err(),
        of("[default]\ns3 =\n  use_accelerate_endpoint = true\n", &[("AWS_USE_FIPS_ENDPOINT", "true")]).unwrap_err()
    );
    let error = of("", &[("AWS_USE_FIPS_ENDPOINT", "true"), ("AWS_ENDPOINT_URL", "http://h")]).unwrap_err();
    assert!(error.contains("FIPS") && error.contains("another endpoint"), "{error}");
}

#[test]
fn a_profile_alone_is_not_moved_by_variables() {
    let home = home(CONFIG, CREDENTIALS);
    let variables = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "us-x"), ("S3_ENDPOINT_URL", "http://h")];
    let of = |profile: &str, profile_alone| AccountOptions { profile: Some(profile.into()), profile_alone, ..asked(&home, &variables) };
    let open = |asked: &AccountOptions| {
        let account = Account::open(asked).unwrap();
        (id(asked), account.region().map(str::to_string), account.endpoint().map(ToString::to_string))
    };
    assert_eq!(open(&of("lone", false)), ("LONE".into(), Some("us-x".into()), Some("http://h".into())));
    assert_eq!(open(&of("lone", true)), ("LONE".into(), Some("eu-two".into()), Some("https://lone.example".into())));
    assert_eq!(open(&of("both", true)), ("BOTH".into(), None, None));
}

#[test]
fn the_files_may_be_elsewhere() {
    let (home, other) = (home(CONFIG, CREDENTIALS), home("", "[default]\naws_access_key_id = OTHER\naws_secret_access_key = s\n"));
    let at = other.path().join(".aws/credentials");
    assert_eq!(id(&asked(&home, &[("AWS_SHARED_CREDENTIALS_FILE", at.to_str().unwrap())])), "OTHER");
    std::fs::remove_file(home.path().join(".aws/credentials")).unwrap();
    assert_eq!(id(&asked(&home, &[])), "CONFIG");
}

#[test]
fn without_credentials_the_places_are_told_in_order() {
    let empty = tempfile::tempdir().unwrap();
    let error = Account::open(&asked(&empty, &[])).unwrap().credential().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let text = error.to_string();
    let order = ["AWS_ACCESS_KEY_ID", ".aws/credentials (No such file", ".aws/config", "--profile", "--no-sign-request"];
    let places: Vec<_> = order.iter().map(|word| text.find(word).unwrap_or_else(|| panic!("{word} in {text}"))).collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn half_a_key_is_said_and_not_passed_by() {
    let home = home(CONFIG, CREDENTIALS);
    for account in [asked(&home, &[("AWS_ACCESS_KEY_ID", "x")]), AccountOptions { profile: Some("half".into()), ..asked(&home, &[]) }] {
        let error = Account::open(&account).unwrap().credential().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.to_string().to_lowercase().contains("aws_secret_access_key"), "{error}");
    }
}

#[test]
fn an_unknown_profile_is_a_usage_error_that_names_the_known() {
    let home = home(CONFIG, CREDENTIALS);
    for account in [AccountOptions { profile: Some("nope".into()), ..asked(&home, &[]) }, asked(&home, &[("AWS_PROFILE", "nope")])] {
        let error = Account::open(&account).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("nope") && error.to_string().contains("both, default, half, lone"), "{error}");
    }
}

#[test]
fn unsigned_requests_need_no_credential() {
    let empty = tempfile::tempdir().unwrap();
    let account = Account::open(&AccountOptions { no_sign_request: true, ..asked(&empty, &[]) }).unwrap();
    assert!(account.is_anonymous() && account.credential().unwrap().is_none());
}

#[test]
fn the_endpoint_is_the_first_that_is_said() {
    let home = home("[default]\nendpoint_url = http://profile\nservices = x\n[services x]\ns3 =\n  endpoint_url = http://services\n", "");
    let all = [("S3_ENDPOINT_URL", "http://a:1/"), ("AWS_ENDPOINT_URL_S3", "http://b"), ("AWS_ENDPOINT_URL", "http://c")];
    let said = |asked: &AccountOptions| Account::open(asked).unwrap().endpoint().map(ToString::to_string);
    let flag = AccountOptions { endpoint_url: Some("https://flag".into()), ..asked(&home, &all) };
    assert_eq!(said(&flag).unwrap(), "https://flag");
    for (from, url) in [(0, "http://a:1"), (1, "http://b"), (2, "http://c"), (3, "http://services")] {
        assert_eq!(said(&asked(&home, &all[from..])).unwrap(), url);
    }
    let ignored = ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "TRUE");
    assert_eq!(said(&asked(&home, &[ignored, all[1], all[2]])), None);
    assert_eq!(said(&asked(&home, &[ignored, all[0]])).unwrap(), "http://a:1");
    for bad in ["ftp://x", "http://", "http://user:pw@h", "http://h/?x"] {
        let error = Account::open(&AccountOptions { endpoint_url: Some(bad.into()), ..asked(&home, &[]) }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{bad}");
    }
}

#[test]
fn region_and_addressing_come_from_flag_variable_and_profile() {
    let home = home(CONFIG, CREDENTIALS);
    let region = |asked: &AccountOptions| Account::open(asked).unwrap().region().map(str::to_string);
    let (first, second) = (("AWS_REGION", "r-1"), ("AWS_DEFAULT_REGION", "r-2"));
    assert_eq!(region(&AccountOptions { region: Some("flag".into()), ..asked(&home, &[first]) }).unwrap(), "flag");
    assert_eq!(region(&asked(&home, &[first, second])).unwrap(), "r-1");
    assert_eq!(region(&asked(&home, &[second])).unwrap(), "r-2");
    assert_eq!(region(&asked(&home, &[])).unwrap(), "eu-one");
    assert_eq!(region(&asked(&home, &[("AWS_PROFILE", "both")])), None);
    assert!(Account::open(&AccountOptions { region: Some("x.evil.example/".into()), ..asked(&home, &[]) }).is_err());
    let lone = Account::open(&asked(&home, &[("AWS_PROFILE", "lone")])).unwrap();
    assert_eq!((lone.region(), lone.addressing()), (Some("eu-two"), Addressing::Path));
    assert_eq!(lone.endpoint().unwrap().to_string(), "https://lone.example");
    assert_eq!(Account::open(&asked(&home, &[])).unwrap().addressing(), Addressing::Auto);
}

#[test]
fn a_credential_that_expired_is_replaced_by_what_the_file_says_now() {
    let home = home("", "[default]\naws_access_key_id = OLD\naws_secret_access_key = s1\naws_session_token = t1\n");
    let account = Account::open(&asked(&home, &[])).unwrap();
    let now = SystemTime::now();
    let old = account.credential_at(now).unwrap().unwrap();
    let error = account.refresh_at(&old, now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "the same again: {error}");
    let next = "[default]\naws_access_key_id = NEW\naws_secret_access_key = s2\naws_session_token = t2\n";
    std::fs::write(home.path().join(".aws/credentials"), next).unwrap();
    assert!(account.refresh_at(&old, now + PAUSE / 2).is_err(), "not looked for again so soon");
    let new = account.refresh_at(&old, now + PAUSE).unwrap().unwrap();
    assert_eq!(new.access_key(), "NEW");
    assert!(Arc::ptr_eq(&new, &account.refresh(&old).unwrap().unwrap()), "another thread finds what was found");
    assert!(Arc::ptr_eq(&new, &account.credential().unwrap().unwrap()));
}

#[test]
fn no_secret_is_printed() {
    let home =
        home("", "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = hidden1\naws_session_token = hidden2\n");
    let asked = asked(&home, &[("SOME_SECRET", "hidden3")]);
    let account = Account::open(&asked).unwrap();
    let credential = account.credential().unwrap();
    let profiles = Profiles::read(&asked.environment).unwrap();
    let printed = format!("{account:?} {asked:?} {credential:?} {profiles:#?} {}", account.whose());
    assert!(!printed.contains("hidden") && !printed.contains("AKIAIOSFODNN7EXAMPLE"), "{printed}");
    assert!(account.whose().starts_with("AKIA...MPLE from profile default in "), "{}", account.whose());
}
