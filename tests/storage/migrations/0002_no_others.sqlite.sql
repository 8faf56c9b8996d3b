DROP TABLE others;
