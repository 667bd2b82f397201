"""Addresses of the web, which are not read: downloading is another tool's work."""


def web_reason(url: str) -> str:
    """Why what lies at `url` is not read, and what to do; "" where it is no address of the web."""
    scheme = url.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        return ""
    return (
        f"{scheme}:// is not read; download it first: img2dataset makes tar files of a list of images, which `shardmill"
        " webdataset` takes"
    )
