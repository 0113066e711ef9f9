//! What went wrong, as the service says it, in haul's words: kind, remedy, reason and next step.

use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Remedy};
use http::StatusCode;

use super::xml;

/// An answer that is no success.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    pub status: u16,
    /// The service's code (`NoSuchKey`), or the status' name where there was no document: an answer to HEAD has none.
    pub code: String,
    pub message: String,
    /// To quote to those who run the service.
    pub request_id: String,
    /// Where the bucket is, if the answer says it.
    pub region: Option<String>,
    /// What `Retry-After` asks for.
    pub wait: Option<Duration>,
    /// There was no document: all that is known is the status, and `code` is its name.
    pub bare: bool,
}

impl Refusal {
    /// Codes that ask for less, or say that something broke on their side. The same request may work later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self.code.as_str(),
            "SlowDown"
                | "SlowDownRead"
                | "SlowDownWrite"
                | "ServiceUnavailable"
                | "InternalError"
                | "RequestTimeout"
                | "ThrottlingException"
                | "Throttling"
                | "RequestLimitExceeded"
                | "BandwidthLimitExceeded"
                | "OperationAborted"
                | "ConditionalRequestConflict"
        ) || matches!(self.status, 429 | 500 | 502 | 503 | 504 | 509)
    }

    /// Whether the endpoint asks for fewer requests, rather than having failed at one.
    pub fn is_throttling(&self) -> bool {
        self.code.starts_with("SlowDown") || self.code.starts_with("Throttl") || matches!(self.status, 429 | 503 | 509)
    }

    /// Credentials that were good before and have to be fetched anew.
    pub fn is_expiry(&self) -> bool {
        matches!(self.code.as_str(), "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "RequestExpired")
    }

    /// It may be that credentials have expired: an answer to HEAD is 400 then, and some services answer 403.
    pub fn may_be_expiry(&self) -> bool {
        self.bare && matches!(self.status, 400 | 403)
    }

    pub fn is_skew(&self) -> bool {
        self.code == "RequestTimeTooSkewed"
    }

    /// The service does not know this way of proving what is sent, or of framing it.
    pub fn denies_proof(&self) -> bool {
        self.status == 501
            || matches!(
                self.code.as_str(),
                "NotImplemented" | "XNotImplemented" | "MalformedTrailerError" | "InvalidTrailer" | "XAmzContentSHA256Mismatch"
            )
            || (self.status == 400
                && matches!(self.code.as_str(), "InvalidRequest" | "InvalidArgument" | "BadRequest")
                && ["checksum", "trailer", "algorithm", "content-encoding", "sha256"]
                    .iter()
                    .any(|word| self.message.to_lowercase().contains(word)))
    }

    /// The error for an operation on one object or bucket.
    pub fn error(&self, op: &'static str, bucket: &str) -> Error {
        use ErrorKind as K;
        let kind = match (self.code.as_str(), self.status) {
            ("NoSuchKey" | "NoSuchVersion" | "NoSuchUpload" | "NotFound" | "NoSuchBucket", _) => K::NotFound,
            ("PreconditionFailed" | "InvalidRange" | "InvalidPartNumber", _) => K::Changed,
            ("BadDigest" | "InvalidDigest" | "XAmzContentChecksumMismatch" | "ChecksumMismatch" | "XMinioContentChecksumMismatch", _) => {
                K::Corrupt
            }
            ("XMinioStorageFull" | "InsufficientStorage" | "InsufficientCapacity" | "NotEnoughSpace", _) | (_, 507) => K::NoSpace,
            ("QuotaExceeded" | "XMinioAdminBucketQuotaExceeded" | "TooManyBuckets", _) => K::Quota,
            ("KeyTooLongError" | "KeyTooLong" | "InvalidBucketName" | "XMinioInvalidObjectName" | "InvalidURI", _) => K::BadName,
            ("BucketAlreadyExists" | "BucketAlreadyOwnedByYou" | "BucketNotEmpty", _) => K::Exists,
            ("NotImplemented" | "XNotImplemented" | "MethodNotAllowed", _) => K::Unsupported,
            // Nothing else would fare better: the run's, not an object's.
            ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "AccountProblem", _) => K::Broken,
            _ => match self.status {
                401 | 403 => K::Denied,
                404 => K::NotFound,
                405 | 501 => K::Unsupported,
                409 => K::Exists,
                412 | 416 => K::Changed,
                _ => K::Other,
            },
        };
        let remedy = match kind {
            K::Corrupt => Remedy::Again,
            // Parts that the service lost are sent again once the upload has been looked at.
            _ if self.code == "InvalidPart" => Remedy::Reopen,
            _ if self.is_expiry() || self.is_skew() => Remedy::Again,
            _ if self.is_passing() => Remedy::After(self.wait.unwrap_or_default()),
            _ => Remedy::None,
        };
        let mut error = Error::new(kind, op).remedy_is(remedy).because(self.reason(bucket));
        if let Some(hint) = self.hint(bucket) {
            error = error.hint(hint);
        }
        error
    }

    pub fn reason(&self, bucket: &str) -> String {
        if self.bare
            && let Some(words) = words_of(self.status)
        {
            return format!("{words} (status {})", self.status);
        }
        let known = match self.code.as_str() {
            "NoSuchKey" | "NotFound" => return "no such object".into(),
            "NoSuchBucket" => return format!("there is no bucket {bucket}"),
            "NoSuchUpload" => return "the unfinished upload is not there any more".into(),
            "InvalidPart" => "the service has lost parts of the upload",
            "PreconditionFailed" => return "it is another version by now".into(),
            "BadDigest" | "XAmzContentChecksumMismatch" | "ChecksumMismatch" => "the service got other bytes than were sent",
            "SignatureDoesNotMatch" => "the secret key is not the one that belongs to the access key",
            "InvalidAccessKeyId" => "the service does not know the access key",
            "AccessDenied" | "Forbidden" | "AllAccessDisabled" => "access denied",
            "ExpiredToken" | "ExpiredTokenException" => "the credentials have expired",
            "RequestTimeTooSkewed" => "this machine's clock and the service's are too far apart",
            "EntityTooLarge" => "too large for one request",
            _ => "",
        };
        let said = if self.message.is_empty() { self.code.clone() } else { format!("{}: {}", self.code, self.message) };
        let mut reason = match known {
            "" => said,
            known => format!("{known} ({})", self.code),
        };
        if matches!(self.status, 500..) && !self.request_id.is_empty() {
            reason.push_str(&format!(" (request {})", self.request_id));
        }
        reason
    }

    fn hint(&self, bucket: &str) -> Option<String> {
        if self.bare
            && let Some(hint) = hint_of(self.status)
        {
            return Some(hint.to_string());
        }
        let hint = match self.code.as_str() {
            "NoSuchBucket" => {
                return Some(format!("make it with `haul mb s3://{bucket}`, or look at the endpoint that the first line names"));
            }
            "AccessDenied" | "Forbidden" | "AllAccessDisabled" => {
                "the account lacks the right to do this; for a public bucket say --no-sign-request, for another account --profile"
            }
            "SignatureDoesNotMatch" => "look at AWS_SECRET_ACCESS_KEY or at the profile, and at the region",
            "InvalidAccessKeyId" => "look at AWS_ACCESS_KEY_ID or at the profile, and whether the endpoint is the right one",
            "ExpiredToken" | "ExpiredTokenException" => {
                "log in again (`aws sso login`, or what gave the token), then run the same command: it goes on"
            }
            "RequestTimeTooSkewed" => "set this machine's clock",
            "InvalidBucketName" => "3 to 63 lower-case letters, digits, dots and hyphens",
            "KeyTooLongError" | "KeyTooLong" => "a key has at most 1,024 bytes",
            _ if self.message.contains("HTTPS server") => "write https:// in the endpoint's address",
            "InvalidObjectState" => "the object is in an archive class: restore it first",
            _ => return None,
        };
        Some(hint.to_string())
    }
}

/// A document that is not the one that was to come, or an error that came with a status of success.
pub fn document(op: &'static str, bucket: &str, fault: xml::Fault) -> Error {
    match fault {
        xml::Fault::Service(said) => {
            let refusal =
                Refusal { status: 200, code: said.code, message: said.message, request_id: said.request_id, ..Refusal::default() };
            refusal.error(op, bucket)
        }
        other => {
            Error::new(ErrorKind::Other, op).because(other.to_string()).hint("is this the address of an object store? See --endpoint-url")
        }
    }
}

/// What an answer without a document says, where its name says too little.
fn words_of(status: u16) -> Option<&'static str> {
    Some(match status {
        301 | 307 | 308 => "the bucket is somewhere else, and the service does not say where",
        400 => "the service refuses the request and does not say why",
        401 => "the service wants to know who asks",
        403 => "access denied",
        405 => "the service does not allow this request here",
        409 => "something else is under way with it, or stands in the way",
        429 => "too many requests",
        500 => "the service failed",
        501 => "the service does not know this request",
        502 | 504 => "a gateway does not reach the service",
        503 => "the service is overloaded or down",
        _ => return None,
    })
}

fn hint_of(status: u16) -> Option<&'static str> {
    Some(match status {
        301 | 307 | 308 => "name the region with --region, or the endpoint with --endpoint-url",
        400 => {
            "expired credentials, another region and an object with a key of its own (--sse-c) are answered so: \
             look at the profile, the region and the key"
        }
        401 => "look at the profile, or at AWS_ACCESS_KEY_ID",
        403 => {
            "the account lacks the right to do this, or, where it may not list the bucket, there is no such object; \
             for a public bucket say --no-sign-request, for another account --profile"
        }
        _ => return None,
    })
}

/// Names for answers without a document.
pub fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        301 | 307 | 308 => "PermanentRedirect",
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        411 => "MissingContentLength",
        412 => "PreconditionFailed",
        416 => "InvalidRange",
        429 => "TooManyRequests",
        501 => "NotImplemented",
        503 => "ServiceUnavailable",
        507 => "InsufficientStorage",
        500.. => "InternalError",
        _ => "UnexpectedAnswer",
    }
}

/// A body that broke off.
pub fn io_error(op: &'static str, io: &std::io::Error, endpoint: &str) -> Error {
    use std::io::ErrorKind as I;
    let soon = Remedy::After(Duration::from_millis(300));
    if let Some(inner) = io.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        return inner.again();
    }
    let (kind, remedy, reason) = match io.kind() {
        I::ConnectionRefused => (ErrorKind::Broken, soon, format!("nobody listens at {endpoint}")),
        I::TimedOut | I::WouldBlock => (ErrorKind::TimedOut, soon, format!("{endpoint} did not answer in time")),
        I::UnexpectedEof | I::ConnectionReset | I::ConnectionAborted | I::BrokenPipe | I::NotConnected => {
            (ErrorKind::Io, soon, format!("{endpoint} closed the connection"))
        }
        I::HostUnreachable | I::NetworkUnreachable | I::AddrNotAvailable => {
            (ErrorKind::Broken, soon, format!("there is no way to {endpoint}: {io}"))
        }
        _ => (ErrorKind::Io, soon, format!("{endpoint}: {io}")),
    };
    let error = Error::new(kind, op).remedy_is(remedy).because(reason);
    match io.kind() {
        I::ConnectionRefused => error.hint("look at --endpoint-url, and whether the service runs"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_document_says_what_can_be_known() {
        for (status, kind, words) in [
            (400, ErrorKind::Other, "does not say why (status 400)"),
            (401, ErrorKind::Denied, "who asks"),
            (403, ErrorKind::Denied, "access denied (status 403)"),
            (404, ErrorKind::NotFound, "no such object"),
            (405, ErrorKind::Unsupported, "does not allow"),
            (412, ErrorKind::Changed, "another version"),
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
}
