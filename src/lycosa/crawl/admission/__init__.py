"""From a link, redirect, sitemap or submission to a stored URL or a counted refusal."""
