-- Earlier layouts did not compress texts. As bytes, because a damaged text must not prevent the upgrade.
UPDATE texts SET body = compress(CAST(body AS BLOB)) WHERE length(CAST(body AS BLOB)) > 1000;
