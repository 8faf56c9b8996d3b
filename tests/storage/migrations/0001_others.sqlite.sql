CREATE TABLE others (x);
