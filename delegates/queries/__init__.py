"""What more than one caller reads of delegates."""
