use super::*;

#[test]
fn an_answer_without_a_document_says_what_can_be_known() {
    for (status, kind, words) in [
        (400, ErrorKind::Other, "does not say why (status 400)"),
        (401, ErrorKind::Denied, "requires credentials"),
        (403, ErrorKind::Denied, "access denied (status 403)"),
        (404, ErrorKind::NotFound, "no such object"),
        (405, ErrorKind::Unsupported, "does not allow"),
        (412, ErrorKind::Changed, "changed meanwhile"),
        (501, ErrorKind::Unsupported, "does not know"),
        (503, ErrorKind::Other, "overloaded"),
    ] {
        let code = code_of(StatusCode::from_u16(status).expect("a status")).to_string();
        let error = Refusal { status, code, bare: true, ..Refusal::default() }.error("stat", "bucket");
        assert_eq!(error.kind(), kind, "{status}");
        assert!(error.to_string().contains(words), "{status}: {error}");
        assert!(!error.to_string().contains("BadRequest") && !error.to_string().contains("Forbidden"), "{error}");
    }
}

#[test]
fn refused_credentials_end_the_run_and_denied_access_does_not() {
    for code in ["InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidTokenId", "InvalidSecurity", "UserSuspended"] {
        let error = Refusal { status: 403, code: code.into(), ..Refusal::default() }.error("stat", "bucket");
        assert!(error.kind() == ErrorKind::Broken && error.to_string().contains(code), "{error}");
    }
    let denied = Refusal { status: 403, code: "AccessDenied".into(), ..Refusal::default() }.error("stat", "bucket");
    assert_eq!(denied.kind(), ErrorKind::Denied);
}
